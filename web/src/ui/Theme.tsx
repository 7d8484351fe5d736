// Light, dark, or as the system says. `theme.js` sets it before the first paint; this changes it afterwards.

import { Monitor, Moon, Sun } from "lucide-react";
import { useEffect, useState } from "react";
import { IconButton } from "./Button";
import { recall, remember, useMedia } from "./browser";

const KEY = "baton-theme";
const CHOICES = ["system", "light", "dark"] as const;
type Choice = (typeof CHOICES)[number];

const ICONS = { system: Monitor, light: Sun, dark: Moon };

export function ThemeToggle() {
	const systemDark = useMedia("(prefers-color-scheme: dark)");
	const [choice, setChoice] = useState<Choice>(() => {
		const known = recall(localStorage, KEY);
		return CHOICES.find((candidate) => candidate === known) ?? "system";
	});

	useEffect(() => {
		const dark = choice === "dark" || (choice === "system" && systemDark);
		document.documentElement.dataset.theme = dark ? "dark" : "light";
		remember(localStorage, KEY, choice === "system" ? undefined : choice);
	}, [choice, systemDark]);

	const next = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length] as Choice;
	return <IconButton icon={ICONS[choice]} name={`Theme: ${choice}`} onClick={() => setChoice(next)} />;
}
