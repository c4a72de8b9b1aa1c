"""The operator: keeps an installation of Bursar as an AAQ object describes it."""
