/* Checks of accessibility for users with impaired vision. Each check answers with what is wrong. */
(() => {
  const short = (e) => e.outerHTML.replace(/\s+/g, " ").slice(0, 140);
  const isShown = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && e.getClientRects().length > 0;
  const isSaid = (e) => !e.closest("[aria-hidden=true], [hidden]");
  const byIds = (text) => (text ?? "").split(/\s+/).filter(Boolean).map((id) => document.getElementById(id)?.textContent ?? "").join(" ");

  function name(e) {
    return (
      e.getAttribute("aria-label") || byIds(e.getAttribute("aria-labelledby")) || [...(e.labels ?? [])].map((l) => l.textContent).join(" ") ||
      (e.matches("input") ? "" : e.textContent) || e.getAttribute("title") || ""
    ).trim();
  }

  const checks = {
    names() {
      const wanted = "a[href], button, summary, input:not([type=hidden]), select, textarea, dialog, nav, [role=img]";
      const nameless = [...document.querySelectorAll(wanted)].filter((e) => isSaid(e) && !name(e)).map((e) => `no name: ${short(e)}`);
      const plain = [...document.querySelectorAll("div[aria-label], span[aria-label], pre[aria-label], p[aria-label]")];
      return [...nameless, ...plain.filter((e) => isSaid(e) && !e.role).map((e) => `a name that is not announced, since it has no role: ${short(e)}`)];
    },
    ids() {
      const all = [...document.querySelectorAll("[id]")].map((e) => e.id);
      return all.filter((id, at) => all.indexOf(id) !== at).map((id) => `id twice: ${id}`);
    },
    references() {
      const wrong = [];
      for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
        for (const e of document.querySelectorAll(`[${attribute}]`)) {
          for (const id of e.getAttribute(attribute).split(/\s+/)) if (!document.getElementById(id)) wrong.push(`${attribute} names nothing: ${short(e)}`);
        }
      }
      return wrong;
    },
    structure() {
      const wrong = [];
      if (!document.documentElement.lang) wrong.push("no language");
      if (document.querySelectorAll("main").length !== 1) wrong.push("not one main");
      if (document.querySelectorAll("h1").length !== 1) wrong.push(`${document.querySelectorAll("h1").length} h1`);
      let level = 0;
      for (const h of [...document.querySelectorAll("main h1, main h2, main h3")].filter(isShown)) {
        const now = Number(h.tagName[1]);
        if (now > level + 1) wrong.push(`heading skips a level: ${short(h)}`);
        level = now;
      }
      for (const table of document.querySelectorAll("table")) {
        if (!table.caption) wrong.push(`table without caption: ${short(table)}`);
        for (const th of table.querySelectorAll("th")) if (!name(th) && !th.querySelector("input")) wrong.push(`empty th: ${short(th)}`);
      }
      for (const e of document.querySelectorAll("ul > :not(li), ol > :not(li)")) wrong.push(`not an item: ${short(e)}`);
      for (const e of document.querySelectorAll("a a, a button, button a, button button, label label")) wrong.push(`nested control: ${short(e)}`);
      return wrong;
    },
    onlyColour() {
      return [...document.querySelectorAll("[data-tone].state")].filter((e) => isSaid(e) && !e.closest(".timeline-title") && !name(e)).map((e) => `state without a word: ${short(e)}`);
    },
    contrast() {
      const wrong = new Set();
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const e = node.parentElement;
        if (!node.nodeValue.trim() || !isShown(e) || e.closest("svg, script, .visually-hidden, [aria-disabled=true], :disabled, kbd[aria-hidden]")) continue;
        const found = ratio(rgb(getComputedStyle(e).color), groundOf(e));
        if (found < 4.5) wrong.add(`contrast ${found.toFixed(2)}: ${short(e)}`);
      }
      return [...wrong];
    },
  };

  function isInScroller(element) {
    for (let e = element.parentElement; e && e !== document.body; e = e.parentElement) {
      if (getComputedStyle(e).overflowX !== "visible") return true;
    }
    return false;
  }

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

  function rgb(colour) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  }

  function groundOf(element) {
    for (let e = element; e; e = e.parentElement) {
      const found = rgb(getComputedStyle(e).backgroundColor);
      if (found[3] > 0.98) return found;
    }
    return [255, 255, 255, 1];
  }

  function luminance([r, g, b]) {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  }

  function ratio(one, other) {
    const [bright, dim] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (bright + 0.05) / (dim + 0.05);
  }

  return {
    // The sum of what moved without being touched, once the browser has reported it.
    shift: () =>
      new Promise((resolve) => {
        let sum = 0;
        const add = (list) => list.getEntries().forEach((one) => (sum += one.hadRecentInput ? 0 : one.value));
        new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
        setTimeout(() => resolve(sum), 50);
      }),
    all: () => Object.values(checks).flatMap((check) => check()),
    wide: () => [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && isShown(e) && !isInScroller(e)).slice(0, 8).map(short),
    wideDialogs: () =>
      [...document.querySelectorAll("dialog.dialog")].filter((e) => {
        e.showModal();
        const isWide = e.scrollWidth > e.clientWidth;
        e.close();
        return isWide;
      }).map(short),
    smallTargets: () =>
      [...document.querySelectorAll("button, summary, select, .nav-link, .tab, .button, .pick label")]
        .filter((e) => isShown(e) && !e.closest(".visually-hidden") && (e.getBoundingClientRect().height < 24 || e.getBoundingClientRect().width < 24))
        .map(short),
  };
})()
