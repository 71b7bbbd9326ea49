"""The OLTP tests: one statement, or one transaction, over and over, on tables of two integers and two texts."""
