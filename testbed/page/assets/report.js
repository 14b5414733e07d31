// The page's script: everything here adds to a page that can be read without it.
import { addThemeSwitch } from "./theme.js";
import { makeTablesSortable } from "./tables.js";
import { addTimelines } from "./timeline.js";

addThemeSwitch(document.getElementById("theme"));
makeTablesSortable(document.querySelectorAll("table[data-table]"));
addTimelines(document.querySelectorAll("[data-timeline]"));
