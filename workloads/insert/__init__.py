"""The Insert Benchmark: its generations, steps, rows, statements and the roles that send them."""
