"""What the server answers: a module per topic, with its REST interface and its page."""
