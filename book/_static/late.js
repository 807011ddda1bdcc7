// What is not needed to read the page is loaded once the page has been shown: scripts of a type that browsers do
// not execute. Where one does not come, the still picture stays, and no more space is reserved than it needs.
addEventListener("load", () => {
  for (const { src } of document.querySelectorAll("script[data-late]")) {
    const script = document.createElement("script");
    script.async = false; // each after the one before
    script.onerror = () => document.documentElement.classList.add("without-live");
    script.src = src;
    document.head.append(script);
  }
});
