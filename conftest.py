"""Makes the suite's options and fixtures known to a checkout; an installed package registers the same plugin itself."""

pytest_plugins = ["conformance.plugin"]
