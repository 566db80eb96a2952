"""`python -m torch.distributed.launch`, the older name of run.py."""

from .run import main as main

if __name__ == "__main__":
    main()
