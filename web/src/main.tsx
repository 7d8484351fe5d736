// Starts the page: one library for the tab, which signs in and loads before and beside the first drawing.

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Library } from "./data/library";
import "./style.css";
import { App } from "./ui/App";
import { LibraryProvider } from "./ui/context";

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");

// Not in an effect: the code of a link works once.
const library = new Library();
void library.start();
// A link that is opened in a tab that shows Baton already changes only what stands behind the #.
addEventListener("hashchange", () => location.hash.startsWith("#code=") && void library.start());

createRoot(root).render(
	<StrictMode>
		<LibraryProvider library={library}>
			<App />
		</LibraryProvider>
	</StrictMode>,
);
