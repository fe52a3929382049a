/* Thousands of rows in a window that scrolls: only those that are looked at are in the page. The list is read on in
   pieces while one scrolls; rows that are out of sight are kept as text, and stay current there too. */
import { fetchWhole } from "./answers.js";
import { morph, parse } from "./live/morph.js";
import { gettext, number } from "./words.js";

const AROUND = 15; // rows drawn before and after what is seen
const AHEAD = 60; // rows that may be left before the next piece is read
const FIRST_GUESS = 37; // px of a row that is not measured yet
const windows = new WeakMap();

export function startWindows() {
  document.addEventListener("novella:changed", openAll);
  openAll();
}

function openAll() {
  for (const box of document.querySelectorAll("[data-window]")) {
    if (!windows.has(box.querySelector("[data-rows]"))) new Window(box);
  }
}

function windowIn(root) {
  const body = root.querySelector("[data-window] [data-rows]");
  return body ? windows.get(body) : undefined;
}

/** Whether a row that is not in the page is one of a window, which then has it as it is now. */
export function keepOutOfSight(id, html) {
  const found = windowIn(document);
  if (!found?.places.has(id)) return false;
  if (html) found.texts.set(id, html);
  else found.goes(id);
  return true;
}

/** A deleted row stays in its place, marked as deleted. */
export function isToldAsGone(id) {
  const found = windowIn(document);
  if (!found?.places.has(id)) return false;
  found.goes(id);
  return true;
}

/** Too many rows changed for single updates: show a note, since new and deleted rows do not move the rows of a window. */
export function tellOfMuch() {
  const found = windowIn(document);
  if (found) document.dispatchEvent(new CustomEvent("novella:missed", { detail: { list: found.list } }));
}

/** How many rows are picked that have scrolled away. */
export function pickedOutOfSight(form) {
  return windowIn(form)?.picked.size ?? 0;
}

/** What a list would begin with by now, beside what the window has read: what came and went, or undefined for none. */
export function newsOfWindow(list, fresh) {
  const found = windowIn(list);
  if (!found) return undefined;
  if (fresh !== list) found.renew(fresh);
  const ids = [...fresh.querySelectorAll("[data-rows] > [id]")].map((row) => row.id);
  return { come: ids.filter((id) => !found.places.has(id)).length, gone: found.gone.size };
}

class Window {
  constructor(box) {
    this.box = box;
    this.list = box.closest("[data-list]");
    this.body = box.querySelector("[data-rows]");
    this.table = box.querySelector("table");
    this.most = Number(box.dataset.window);
    this.order = [];
    this.places = new Map(); // id → where it is in the order
    this.texts = new Map(); // id → HTML, of rows that are not in the page
    this.heights = []; // px, of rows that were measured
    this.picked = new Set(); // of rows that are not in the page
    this.gone = new Set();
    this.pieces = []; // what was read at once: its address, and where it is in the order
    windows.set(this.body, this);
    box.setAttribute("data-windowed", "");
    for (const row of [...this.body.children]) this.add(row.id);
    this.pieces.push({ address: location.href, from: 0, to: this.order.length });
    this.next = this.list.querySelector("a[rel=next]")?.href;
    this.table.setAttribute("aria-rowcount", "-1");
    box.addEventListener("scroll", () => this.soon(), { passive: true });
    new ResizeObserver(() => this.resized()).observe(box);
    this.list.querySelector("form")?.addEventListener("submit", () => this.bringPicked());
    this.list.querySelector("a[rel=next]")?.setAttribute("hidden", "");
    this.resized();
  }

  add(id) {
    this.places.set(id, this.order.length);
    this.order.push(id);
  }

  /** More rows changed than are sent one by one. This is the first piece; the others are reloaded when they become visible. */
  renew(fresh) {
    for (const piece of this.pieces) piece.isOld = true;
    this.pieces[0].isOld = false;
    this.take(fresh);
    this.soon();
  }

  take(fresh) {
    for (const row of fresh.querySelectorAll("[data-rows] > [id]")) {
      const shown = document.getElementById(row.id);
      if (shown) morph(shown, row.cloneNode(true));
      else if (this.places.has(row.id)) this.texts.set(row.id, row.outerHTML);
      shown?.classList.toggle("faint", this.gone.has(row.id));
    }
  }

  async readAgain(first, end) {
    const piece = this.pieces.find(({ isOld, from, to }) => isOld && from < end && to > first);
    if (!piece || this.isReadingAgain) return;
    this.isReadingAgain = true;
    piece.isOld = false; // later changes are sent, or make it outdated again
    const answer = await fetchWhole(piece.address);
    this.isReadingAgain = false;
    const fresh = answer?.ok && !answer.away && parse(answer.text).find((element) => element.id === this.list.id);
    if (!this.body.isConnected) return;
    if (!fresh) piece.isOld = true; // until one scrolls on: a server that does not answer is not pressed
    else {
      this.take(fresh);
      this.soon();
    }
  }

  goes(id) {
    this.gone.add(id);
    document.getElementById(id)?.classList.add("faint");
    document.dispatchEvent(new CustomEvent("novella:gone", { detail: { list: this.list } }));
  }

  /** Another width makes other rows. */
  resized() {
    if (this.width === this.box.clientWidth) return this.soon();
    this.width = this.box.clientWidth;
    this.heights = [];
    this.sum = this.measured = 0;
    this.freeze();
    this.soon();
  }

  /** Columns keep the widths that the first rows gave them: else they would jump with every row that comes. */
  freeze() {
    const heads = [...this.table.querySelectorAll("thead th")];
    this.table.style.tableLayout = "";
    for (const head of heads) head.style.width = "";
    const widths = heads.map((head) => head.getBoundingClientRect().width);
    if (getComputedStyle(this.body).display === "block") return; // cards have no columns
    heads.forEach((head, at) => (head.style.width = `${widths[at]}px`));
    this.table.style.tableLayout = "fixed";
  }

  soon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      if (this.body.isConnected) this.draw();
    });
  }

  typical() {
    return this.measured ? this.sum / this.measured : FIRST_GUESS;
  }

  height(from, to) {
    const typical = this.typical();
    let px = 0;
    for (let at = from; at < to; at += 1) px += this.heights[at] ?? typical;
    return px;
  }

  /** The first row that is seen, and the first that is below. */
  seen() {
    const typical = this.typical();
    const head = getComputedStyle(this.body).display === "block" ? 0 : this.table.tHead?.offsetHeight ?? 0;
    const top = this.box.scrollTop - head;
    const bottom = top + this.box.clientHeight;
    let px = 0;
    let first = 0;
    while (first < this.order.length && px + (this.heights[first] ?? typical) <= top) px += this.heights[first++] ?? typical;
    let end = first;
    while (end < this.order.length && px < bottom) px += this.heights[end++] ?? typical;
    return [first, end];
  }

  draw() {
    const [first, end] = this.seen();
    const wanted = new Set();
    for (let at = Math.max(0, first - AROUND); at < Math.min(this.order.length, end + AROUND); at += 1) wanted.add(at);
    for (const row of this.body.querySelectorAll("[data-row]")) {
      // Rows with the focus or the keyboard cursor stay in the document.
      if (row.contains(document.activeElement) || row.hasAttribute("data-picked")) wanted.add(this.places.get(row.id));
    }
    const anchor = document.getElementById(this.order[first]);
    const before = anchor?.getBoundingClientRect().top;
    this.place([...wanted].sort((one, other) => one - other));
    this.measure();
    if (anchor?.isConnected) this.box.scrollTop += anchor.getBoundingClientRect().top - before;
    if (this.order.length - end < AHEAD) this.readOn();
    this.readAgain(first - AROUND, end + AROUND);
    this.report();
  }

  place(wanted) {
    const ids = new Set(wanted.map((at) => this.order[at]));
    for (const row of [...this.body.children]) {
      if (ids.has(row.id)) continue;
      if (row.id) this.putAway(row);
      row.remove();
    }
    let here = this.body.firstChild;
    let last = 0;
    for (const at of wanted) {
      this.gap(here, last, at);
      last = at + 1;
      const row = document.getElementById(this.order[at]) ?? this.made(this.order[at]);
      if (row === here) here = here.nextSibling;
      else this.body.insertBefore(row, here);
      row.setAttribute("aria-rowindex", at + 2);
    }
    this.gap(here, last, this.order.length);
  }

  putAway(row) {
    this.texts.set(row.id, row.outerHTML);
    const box = row.querySelector("[data-pick]");
    if (box?.checked) this.picked.add(box.value);
    else this.picked.delete(box?.value);
  }

  gap(before, from, to) {
    const px = this.height(from, to);
    if (px <= 0) return;
    const gap = document.createElement("tr");
    gap.className = "gap";
    gap.setAttribute("aria-hidden", "true");
    gap.style.height = `${px}px`;
    this.body.insertBefore(gap, before);
  }

  made(id) {
    const [row] = parse(this.texts.get(id));
    this.texts.delete(id);
    const box = row.querySelector("[data-pick]");
    const everything = this.list.querySelector("[data-bulk-everything] input");
    if (box) box.checked = this.picked.delete(box.value) || Boolean(everything?.checked);
    for (const scripted of row.querySelectorAll("[data-needs-script]")) scripted.hidden = false;
    row.classList.toggle("faint", this.gone.has(id));
    return row;
  }

  measure() {
    for (const row of this.body.querySelectorAll("[data-row]")) {
      const at = this.places.get(row.id);
      const px = row.getBoundingClientRect().height;
      if (!px || this.heights[at] === px) continue;
      this.sum += px - (this.heights[at] ?? 0);
      if (this.heights[at] === undefined) this.measured += 1;
      this.heights[at] = px;
    }
  }

  /** What was picked and has scrolled away goes with the form; where all that match are meant, none needs to. */
  bringPicked() {
    const form = this.list.querySelector("form");
    for (const old of form.querySelectorAll("[data-brought]")) old.remove();
    if (form.querySelector("[data-bulk-everything] input")?.checked) return;
    const name = this.body.querySelector("[data-pick]")?.name;
    for (const value of this.picked) {
      const field = Object.assign(document.createElement("input"), { type: "hidden", name, value });
      field.dataset.brought = "";
      form.append(field);
    }
  }

  async readOn() {
    if (!this.next || this.isReading || this.order.length >= this.most) return;
    this.isReading = true;
    const address = this.next;
    const answer = await fetchWhole(address);
    const html = answer?.ok && !answer.away ? answer.text : undefined;
    const fresh = html && parse(html).find((element) => element.id === this.list.id);
    this.isReading = false;
    if (!this.body.isConnected) return;
    if (!fresh) return this.stop();
    const from = this.order.length;
    for (const row of fresh.querySelectorAll("[data-rows] > [id]")) {
      if (this.places.has(row.id) || this.order.length >= this.most) continue;
      this.add(row.id);
      this.texts.set(row.id, row.outerHTML);
    }
    this.pieces.push({ address, from, to: this.order.length });
    this.next = fresh.querySelector("a[rel=next]")?.href;
    this.soon();
  }

  /** No answer: the way to the next page is there, as without a window. */
  stop() {
    const link = this.list.querySelector("a[rel=next]");
    if (!link) return;
    link.href = this.next;
    link.hidden = false;
    this.next = undefined;
    this.isStopped = true;
  }

  report() {
    const isWhole = !this.next && !this.isStopped;
    const count = number(this.order.length);
    if (isWhole) this.table.setAttribute("aria-rowcount", this.order.length + 1);
    const words = this.list.querySelector("[data-window-words]");
    const text = this.order.length >= this.most && this.next
      ? gettext("First {count} rows. Filter the list to see others", { count })
      : isWhole ? gettext("All {count}", { count }) : gettext("{count} loaded. Scroll for more", { count });
    if (words && words.textContent !== text) words.textContent = text;
  }
}
