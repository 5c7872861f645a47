"use strict";
// Before anything is drawn: the theme chosen last time, or the system's.
document.documentElement.dataset.theme = localStorage.getItem("theme")
  ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
