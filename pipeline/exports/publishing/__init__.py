"""Publishing of datasets: the upload folder, and its way to the Hugging Face Hub."""
