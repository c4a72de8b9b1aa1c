"""Programs that tests run as a person runs them."""
