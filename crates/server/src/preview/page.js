// Runs in every preview before the app does: tells the page that embeds it when something is on the screen and what went wrong,
// and gives the app a storage where the browser refuses one to embedded pages. It has no powers that the app has not.
(() => {
  const MOST = {
    problems: 20,
    message: 4000,
    elements: 500,
    settleMs: 250,
    blankAfterMs: 5000,
    things: "img, svg, canvas, video, audio, iframe, object, embed, input, button, textarea, select, progress, meter",
  };
  const revision = document.currentScript?.dataset.revision;
  let problems = 0;
  let painted = false;
  let unstyled = false;

  const tell = (type, more) => {
    if (parent !== window) parent.postMessage({ baton: "preview", type, revision, ...more }, "*");
  };

  const frames = (count, then) => (count === 0 ? then() : requestAnimationFrame(() => frames(count - 1, then)));

  /** Whether an element draws something by itself. */
  const draws = (element) => {
    if (element.shadowRoot) return true;
    const { width, height } = element.getBoundingClientRect();
    if (width === 0 || height === 0) return false;
    if (element.matches(MOST.things)) return true;
    const style = getComputedStyle(element);
    const colour = /^(transparent|rgba\(0, 0, 0, 0\))$/.test(style.backgroundColor) ? "" : style.backgroundColor;
    return colour !== "" || style.backgroundImage !== "none" || style.boxShadow !== "none" || style.borderTopWidth !== "0px";
  };

  /** Whether a person sees nothing: no words, no pictures, nothing that has a colour. A frame that is not laid out is not judged. */
  const isBlank = () => {
    const body = document.body;
    if (!body) return true;
    if (body.innerText.trim() !== "") return false;
    return ![...body.querySelectorAll("*")].slice(0, MOST.elements).some(draws);
  };

  /** Calls when the page had its time to draw: it was loaded, and what it began with is done. */
  const settled = (then) => {
    const wait = () => setTimeout(then, MOST.settleMs);
    if (document.readyState === "complete") wait();
    else addEventListener("load", wait, { once: true });
  };

  const problem = (message, at, mayBeBlank = true) => {
    problems += 1;
    if (problems > MOST.problems) return;
    // What an exception does to the screen is seen only after React, or whatever draws, has given up or drawn.
    settled(() => {
      const blank = mayBeBlank && innerWidth > 0 && isBlank();
      tell("problem", { blank, message: String(message).slice(0, MOST.message), at });
    });
  };

  /** The first place of a stack that has an address. */
  const placeIn = (stack) => {
    const found = /(https?:\/\/[^\s()]+?):(\d+):(\d+)/.exec(String(stack ?? ""));
    return found ? { url: found[1], line: Number(found[2]), column: Number(found[3]) } : undefined;
  };

  addEventListener(
    "error",
    (event) => {
      if (event.target instanceof HTMLElement) {
        if (event.target.tagName === "SCRIPT") problem(`${event.target.src} could not be loaded`);
        return;
      }
      const at = event.filename ? { url: event.filename, line: event.lineno || 1, column: event.colno || 1 } : undefined;
      problem(event.error?.message ? `${event.error.name}: ${event.error.message}` : event.message, at ?? placeIn(event.error?.stack));
    },
    true,
  );
  addEventListener("unhandledrejection", ({ reason }) => {
    // Tailwind gave up on the styles: what would be on the screen has none, so it is not shown in the place of what has.
    if (/\/@baton\/[^/]+\/tailwind\.js/.test(String(reason?.stack ?? ""))) {
      unstyled = true;
      tell("problem", { blank: false, unstyled, message: `The styles do not compile: ${reason.message}`.slice(0, MOST.message) });
      return;
    }
    problem(reason?.message ? `${reason.name}: ${reason.message}` : `Unhandled rejection: ${reason}`, placeIn(reason?.stack));
  });
  addEventListener("securitypolicyviolation", (event) => {
    const at = event.sourceFile ? { url: event.sourceFile, line: event.lineNumber || 1, column: event.columnNumber || 1 } : undefined;
    problem(`A preview may only use its own files: ${event.effectiveDirective} of ${event.blockedURI} was refused`, at, false);
  });

  const watch = new MutationObserver(() => look());
  const look = () => {
    if (painted || unstyled || innerWidth === 0 || isBlank()) return;
    painted = true;
    watch.disconnect();
    frames(2, () => tell("painted"));
  };
  watch.observe(document, { childList: true, subtree: true, characterData: true });
  addEventListener("load", () => {
    look();
    setTimeout(() => {
      look();
      if (!painted && problems === 0 && innerWidth > 0) tell("problem", { blank: true, message: "The page stays empty." });
    }, MOST.blankAfterMs);
  });

  /** What Storage does, for as long as the page lives. */
  const storage = () => {
    const kept = new Map();
    return {
      get length() {
        return kept.size;
      },
      key: (n) => [...kept.keys()][n] ?? null,
      getItem: (name) => kept.get(String(name)) ?? null,
      setItem: (name, value) => void kept.set(String(name), String(value)),
      removeItem: (name) => void kept.delete(String(name)),
      clear: () => kept.clear(),
    };
  };
  for (const name of ["localStorage", "sessionStorage"]) {
    try {
      void window[name].length;
    } catch {
      Object.defineProperty(window, name, { value: storage(), configurable: true });
    }
  }

  // The revision is Baton's business; the app sees the address that it will have.
  if (revision) {
    const rest = new URLSearchParams(location.search);
    rest.delete("instant");
    history.replaceState(history.state, "", `${location.origin}${location.pathname}${rest.size > 0 ? `?${rest}` : ""}${location.hash}`);
  }
})();
