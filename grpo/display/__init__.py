"""What a person reads in the terminal: numbers, bars and tables."""
