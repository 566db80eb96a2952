"""Records files of torch.save: writes files.pt and files_legacy.pt beside this file.

Run with PyTorch installed: python -m tests.golden.record_files
"""

from pathlib import Path

if __name__ == "__main__":
    import torch

    from tests.saved_objects import make

    here = Path(__file__).parent
    torch.save(make(torch), here / "files.pt")
    torch.save(make(torch), here / "files_legacy.pt", _use_new_zipfile_serialization=False)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Dropout(), torch.nn.GELU())
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.arange(1.0, p.numel() + 1).reshape(p.shape) / 4)
    torch.save(net, here / "files_model.pt")
