/* What scripts say, in the language of the page. English stands in the scripts; other languages bring their catalogue. */
const catalogue = window.django;

/** The translation of a text, with `{name}` replaced by values.name. */
export function gettext(text, values = {}) {
  return fill(catalogue ? catalogue.gettext(text) : text, values);
}

/** As above, with the form that the number asks for. */
export function ngettext(one, many, count, values = {}) {
  const found = catalogue ? catalogue.ngettext(one, many, count) : count === 1 ? one : many;
  return fill(found, { count: number(count), ...values });
}

/** A number as people of the page's language write it. */
export function number(amount, digits = 0) {
  return new Intl.NumberFormat(document.documentElement.lang, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(amount);
}

function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}
