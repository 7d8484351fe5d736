// Sets the theme before the first paint, so that nothing flashes. Stands alone, since inline scripts are not allowed.
(() => {
	let chosen = null;
	try {
		chosen = localStorage.getItem("baton-theme");
	} catch {
		// Without storage the system's choice holds.
	}
	const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
	document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
