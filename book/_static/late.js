// Scripts of what computes in the page are loaded when the page has been shown and their place comes near the window.
// The page names them, with those who need them, and a type that browsers do not execute. If one of them fails to load, the still picture stays,
// in no more space than it needs.
{
  const loaded = new Set();
  const loadScripts = (name) => {
    for (const { src } of document.querySelectorAll(`script[data-late~="${name}"]`)) {
      if (loaded.has(src)) continue; // for another place
      loaded.add(src);
      const script = document.createElement("script");
      script.async = false; // each after the one before
      script.onerror = () => document.documentElement.classList.add("without-live");
      script.src = src;
      document.head.append(script);
    }
  };
  const watch = () => {
    const names = new Set([...document.querySelectorAll("script[data-late]")].flatMap((script) => script.dataset.late.split(" ")));
    for (const name of names) {
      const observer = new IntersectionObserver((entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        observer.disconnect();
        loadScripts(name);
      }, { rootMargin: "100%" });
      for (const place of document.querySelectorAll(`.${name}, .tag_${name}`)) observer.observe(place);
    }
  };
  // A timer that is set in a frame fires after it.
  addEventListener("load", () => requestAnimationFrame(() => setTimeout(watch)));
}
