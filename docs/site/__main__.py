# SPDX-License-Identifier: Apache-2.0
"""`python -m docs.site build/docs`: collects the pages, builds the site with Zensical, and checks the result."""

import shutil
import subprocess
import sys
from pathlib import Path

from docs.site import check, stage

#: Zensical's theme asks this host for the shim that lets search work in a page opened from a folder.
REMOTE_SHIM = "https://unpkg.com/iframe-worker/shim"
SHIM = Path(__file__).parent / "iframe-worker.js"


def main(folder: Path) -> int:
    """Builds the site in `folder/site`; returns 1 if a check fails."""
    site = folder / "site"
    shutil.rmtree(site, ignore_errors=True)
    pages = stage.write_stage(folder / "pages")
    shutil.copyfile(stage.CONFIGURATION, folder / "zensical.toml")
    built = subprocess.run(
        [Path(sys.executable).parent / "zensical", "build", "--strict", "--clean"], cwd=folder, check=False
    )
    if built.returncode:
        return built.returncode
    use_local_shim(site)
    found = check.problems(site)
    for problem in found:
        print(problem, file=sys.stderr)
    if not found:
        print(f"{len(pages)} pages: open {site.resolve() / 'index.html'}")
    return 1 if found else 0


def use_local_shim(site: Path) -> None:
    """Puts the shim into the site, and makes every page load it from there."""
    target = site / "assets" / "javascripts" / SHIM.name
    shutil.copyfile(SHIM, target)
    for page in site.rglob("*.html"):
        up = "../" * (len(page.relative_to(site).parts) - 1)
        page.write_text(page.read_text().replace(REMOTE_SHIM, f"{up}{target.relative_to(site).as_posix()}"))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
