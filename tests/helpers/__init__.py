"""What several test modules build their inputs with."""
