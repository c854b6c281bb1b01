// The script of every page.
import "./live.js";
import "./actions.js";
import "./table.js";
import "./keys.js";
