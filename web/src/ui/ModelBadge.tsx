// Which model works, told honestly: the demo says in so many words that it is none, and how to get a real one.

import { FlaskConical, Sparkles } from "lucide-react";
import { useLibraryState } from "./context";
import { Popover } from "./Popover";

const EXAMPLES = [
	["Ollama on this machine", "BATON_MODEL_URL=http://127.0.0.1:11434/v1 \\\nBATON_MODEL=qwen2.5-coder baton up"],
	["OpenAI, Anthropic or Gemini", "BATON_MODEL=… BATON_MODEL_KEY=… baton up"],
] as const;

export function ModelBadge({ place = "right-0 top-full mt-2" }: { place?: string }) {
	const { system } = useLibraryState();
	if (!system) return null;
	if (!system.demo) {
		return (
			<span className="flex min-w-0 items-center gap-1.5 text-xs text-muted" title={`Model: ${system.model.name}`}>
				<Sparkles className="size-3.5 shrink-0" aria-hidden />
				<span className="truncate">{system.model.name}</span>
			</span>
		);
	}
	return (
		<Popover
			name="About the demo"
			place={place}
			className="flex max-w-full items-center gap-1.5 rounded-full border border-warn/30 bg-warn-soft px-2.5 py-0.5 text-xs font-medium text-warn hover:border-warn/60"
			face={
				<>
					<FlaskConical className="size-3.5 shrink-0" aria-hidden />
					<span className="truncate">Demo: follows a script, not a model</span>
				</>
			}
		>
			<p className="font-medium">No model is configured.</p>
			<p className="mt-1 text-muted">
				A script speaks in a model's place; all that follows is real: files, installs, commands, builds, previews. To
				use a model, start Baton with its address:
			</p>
			{EXAMPLES.map(([what, line]) => (
				<div key={what} className="mt-3">
					<p className="text-xs text-faint">{what}</p>
					<pre className="mt-1 overflow-x-auto rounded-md border border-line bg-raised px-2.5 py-2 font-mono text-xs">
						{line}
					</pre>
				</div>
			))}
		</Popover>
	);
}
