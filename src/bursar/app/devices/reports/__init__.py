"""The report of `bursar devices`, and the evidence that it is made of."""
