// Scripts that are not needed to read the page are loaded when it has been shown. The page names them with a type
// that browsers do not execute. If one of them fails to load, the still picture stays, in no more space than it needs.
{
  const loadScripts = () => {
    for (const { src } of document.querySelectorAll("script[data-late]")) {
      const script = document.createElement("script");
      script.async = false; // each after the one before
      script.onerror = () => document.documentElement.classList.add("without-live");
      script.src = src;
      document.head.append(script);
    }
  };
  // A timer that is set in a frame fires after it.
  addEventListener("load", () => requestAnimationFrame(() => setTimeout(loadScripts)));
}
