"""Documents that are written beside the data: the card, Croissant metadata, terms of use."""
