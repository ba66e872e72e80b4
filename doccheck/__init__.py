"""Pages to tests: every block, output and number that a page shows is run and compared.

Data flows one way: page -> fences -> includes -> run -> outputs -> record. Nothing here imports MkDocs.
"""
