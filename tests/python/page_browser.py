"""Tests pages in a headless Chromium: page_browser.py TASKS.json

TASKS.json: {"chromium", "axe", "shots", "pages": [{"name", "url", "kind", "search", "live",
"hostile"}]}. Every page is opened in light and in dark mode, in a wide and in a narrow window. Every
page is checked with axe, and operated with the mouse and the keyboard. Prints the measurements. Any
fault in a page makes an assertion fail.
"""

import json
import re
import sys
import time
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

WIDTHS = {"wide": (1400, 900), "narrow": (390, 800)}
# Only visible rows may have DOM elements, for any number of tensors.
MAX_ELEMENTS = 4000
# The message of a search contains this text if the search found anything.
FOUND = re.compile(" of ")


def opened(page, url):
    """Opens the page, and returns the seconds until it shows its content."""
    started = time.monotonic()
    page.goto(url)
    page.wait_for_selector("[role=treeitem], [role=listbox], .grid .card", state="attached")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return time.monotonic() - started


def faults(page, axe):
    found = page.evaluate(
        axe + "; axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.map("
        "one => ({id: one.id, impact: one.impact, nodes: one.nodes.map(node => node.html.slice(0, 200)).slice(0, 3)})))"
    )
    return [one for one in found if one["impact"] in ("serious", "critical")]


def title(page):
    return page.locator("#detail-title").text_content()


def active(page):
    """Returns the row that has the keyboard focus."""
    name = page.locator("[role=tree], [role=listbox]").get_attribute("aria-activedescendant")
    return page.locator(f"#{name}")


def values_of(page, task):
    """Checks the values of the selected tensor."""
    if task.get("values"):
        page.wait_for_selector("#detail svg[role=img]")
        stats = page.locator("#detail").text_content()
        assert "mean" in stats and "std" in stats, stats


def by_keyboard(page, task):
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.type(task["search"])
    expect(page.locator("[role=status]")).to_have_text(FOUND)
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "tree"
    page.keyboard.press("Home")
    for _ in range(60):
        if active(page).get_attribute("aria-expanded") is None:
            break
        if active(page).get_attribute("aria-expanded") == "false":
            page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
    row = active(page)
    name = row.locator(".name").text_content()
    page.keyboard.press("Enter")
    assert active(page).get_attribute("aria-selected") == "true"
    assert name and title(page).endswith(name), (title(page), name)
    values_of(page, task)
    # The left arrow key closes a node, or moves to its parent. The right arrow key opens the node
    # again.
    page.locator("[role=tree]").focus()
    page.keyboard.press("Home")
    if active(page).get_attribute("aria-expanded") == "true":
        rows = page.locator("[role=treeitem]").count()
        page.keyboard.press("ArrowLeft")
        assert active(page).get_attribute("aria-expanded") == "false"
        assert page.locator("[role=treeitem]").count() < rows
        page.keyboard.press("ArrowRight")
        assert active(page).get_attribute("aria-expanded") == "true"
    page.keyboard.press("End")
    page.keyboard.press("PageUp")
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    expect(page.locator("[role=status]")).not_to_have_text(FOUND)


def by_mouse(page, task):
    page.evaluate("scrollTo(0, 0)")
    for _ in range(12):
        closed = page.locator("[role=treeitem][aria-expanded=false]")
        leaves = page.locator("[role=treeitem]:not([aria-expanded])")
        if leaves.count() or not closed.count():
            break
        closed.first.click()
    leaf = page.locator("[role=treeitem]:not([aria-expanded])").first
    name = leaf.locator(".name").text_content()
    leaf.click()
    assert title(page).endswith(name), (title(page), name)
    values_of(page, task)
    search = page.locator("input[type=search]")
    search.fill("no such name anywhere")
    expect(page.locator("[role=status]")).to_have_text("no matching tensor")
    assert page.locator("[role=treeitem]").count() == 0
    search.fill("")
    page.wait_for_selector("[role=treeitem]")
    # Opens a node in the treemap, and navigates back.
    crumbs = page.locator(".crumbs button")
    before = crumbs.count()
    groups = page.locator(".map .group")
    if groups.count():
        groups.first.click(position={"x": 12, "y": 8})
        assert crumbs.count() > before
        crumbs.first.click()
        assert crumbs.count() == before


def scrolled(page):
    """Returns the longest time of a jump in the tree view, in seconds."""
    return page.evaluate(
        """async () => {
          const box = document.querySelector("[role=tree]");
          let longest = 0;
          for (let jump = 0; jump < 40; jump++) {
            const started = performance.now();
            box.scrollTop = ((jump * 7919) % 40) / 40 * box.scrollHeight;
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            longest = Math.max(longest, performance.now() - started);
          }
          return longest / 1000;
        }"""
    )


def of_model(page, task):
    by_keyboard(page, task)
    by_mouse(page, task)
    return {"scroll": scrolled(page)}


def of_records(page, task):
    cards = page.locator(".grid .card:visible")
    before = cards.count()
    page.keyboard.press("/")
    page.keyboard.type(task["search"])
    assert 0 < cards.count() < before, (cards.count(), before)
    page.locator("input[type=search]").fill("")
    assert cards.count() == before
    pictures = page.locator(".images img")
    sizes = pictures.evaluate_all("all => all.map(one => one.naturalWidth)")
    assert len(sizes) == task["pictures"] and all(sizes), sizes
    return {}


def of_diff(page, task):
    status = page.locator("[role=status]")
    whole = status.text_content()
    kind = page.locator("[aria-pressed]").first
    kind.click()
    assert kind.get_attribute("aria-pressed") == "true" and " of " in status.text_content()
    kind.click()
    assert status.text_content() == whole
    page.keyboard.press("/")
    page.keyboard.type(task["search"])
    expect(page.locator("[role=status]")).to_have_text(FOUND)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert title(page) == active(page).locator(".name").text_content()
    assert "largest difference" in page.locator("#detail").text_content()
    page.locator("input[type=search]").fill("")
    expect(page.locator("[role=status]")).not_to_have_text(FOUND)
    page.locator("[role=option]").last.click()
    assert title(page) == page.locator("[aria-selected=true] .name").text_content()
    return {}


def looked_at(browser, task, axe, shots):
    found = {"name": task["name"]}
    for scheme in ("light", "dark"):
        for width, (across, down) in WIDTHS.items():
            context = browser.new_context(viewport={"width": across, "height": down}, color_scheme=scheme)
            page = context.new_page()
            said = []
            page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("request", lambda request: said.append(request.url) if not is_own(request.url, task) else None)
            seconds = opened(page, task["url"])
            at = f"{task['name']}, {scheme}, {width}"
            if scheme == "light" and width == "wide":
                found["opened"] = seconds
                found["elements"] = page.evaluate("document.querySelectorAll('*').length")
                assert found["elements"] < MAX_ELEMENTS, f"{at}: {found['elements']} elements"
            first = faults(page, axe)
            found.update({"model": of_model, "records": of_records, "diff": of_diff}[task["kind"]](page, task))
            wrong = first + faults(page, axe)
            assert not wrong, f"{at}: {json.dumps(wrong, indent=1)}"
            assert not said, f"{at}: {said}"
            beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert beyond <= 0, f"{at}: {beyond} pixels beyond the window"
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
            assert (max(ground) < 100) == (scheme == "dark"), f"{at}: {ground}"
            # Hostile text becomes neither markup nor script.
            assert page.evaluate("window.hacked === undefined && document.querySelectorAll('script').length === 2"), at
            assert page.locator("b, main script").count() == 0, at
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=Path(shots) / f"{task['name']}-{scheme}-{width}.png", full_page=True)
            context.close()
    return found


def is_own(url, task):
    return url.startswith(("data:", task["url"].split("#")[0]))


def main():
    tasks = json.loads(Path(sys.argv[1]).read_text())
    axe = Path(tasks["axe"]).read_text()
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=tasks["chromium"], args=["--no-sandbox"])
        for task in tasks["pages"]:
            found.append(looked_at(browser, task, axe, tasks["shots"]))
        browser.close()
    print(json.dumps(found))


main()
