"""Commands about logs of a scheduler of the reader's own, as in `hindcast.flows.commands`."""
