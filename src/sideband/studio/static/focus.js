// Where the focus goes when what had it is gone.

/** Whether an element can have the focus now. Asked right after a draw, before the browser has noticed the change. */
export const canFocus = (element) =>
  element.isConnected && !element.matches(":disabled") && element.checkVisibility({ visibilityProperty: true });

const HOMES = [
  '[data-list="requests"] [aria-current]', "#say", "#transcript", "#reminders", "#timeline", "#sessions", "#top",
];

/** The place for the focus if there is none that is nearer; `first` is a selector that is tried before. */
export function home(first = "") {
  const found = [first, ...HOMES].map((selector) => selector && document.querySelector(selector));
  return found.find((element) => element && canFocus(element));
}
