// Paper is white: a page that is read in the dark is printed as in the light.
{
  const page = document.documentElement;
  let shown;
  addEventListener("beforeprint", () => {
    shown = page.dataset.theme;
    page.dataset.theme = "light";
  });
  addEventListener("afterprint", () => {
    page.dataset.theme = shown;
  });
}
