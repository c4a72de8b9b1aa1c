"""What expressions need of other libraries: RE2, and the time zone database."""
