"""The suite's own tests: that the cases cover, the comparison judges, the faults are caught, the reports are kept."""
