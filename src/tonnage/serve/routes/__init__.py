"""Routes of the server: one module per topic, with its REST API and its page."""
