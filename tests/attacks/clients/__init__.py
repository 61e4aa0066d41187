"""Foreign clients in one shared cache: `python -m tests.attacks.clients --out FOLDER`."""
