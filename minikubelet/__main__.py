"""`python -m minikubelet` is the console script."""

from minikubelet.cli.main import main

if __name__ == "__main__":
    main()
