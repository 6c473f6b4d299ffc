"""Reports: the results of a run as data, and what is shown of them."""
