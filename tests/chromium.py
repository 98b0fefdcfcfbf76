"""The fixture `browser`: a real Chromium, started once for a module."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; `apt-get install chromium`")

_UNUSED = (
    # The suggestions of the address bar are a page of their own, and the next renderer is started in advance:
    # without them a page takes half of the CPU time.
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "SpareRendererForSitePerProcess"),
    # Those that Playwright turns off. Our list replaces its list.
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    *("HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding"),
    *("ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints"),
    *("NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch"),
)
_ARGUMENTS = (
    *("--no-sandbox", "--disable-dev-shm-usage"),  # as root in a container, which is where it often runs
    f"--disable-features={','.join(_UNUSED)}",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser without pages."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
        yield browser
        browser.close()
