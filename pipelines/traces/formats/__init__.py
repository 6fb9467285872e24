"""One module per known format of request logs."""
