"""Documents that accompany the data: the card, Croissant metadata, terms of use."""
