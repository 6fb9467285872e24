"""Two receipts: what differs between them, what moved because of which, and what was decisive (docs/receipts.md)."""
