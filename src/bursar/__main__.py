"""`python -m bursar` is `bursar`."""

from bursar.entry.command import main

if __name__ == "__main__":
    main()
