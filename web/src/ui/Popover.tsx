// A button with a small panel under or over it. Closes on Escape, on a click elsewhere and when the focus leaves.

import { type ReactNode, useEffect, useId, useRef, useState } from "react";

interface PopoverProps {
	name: string;
	face: ReactNode;
	className: string;
	/** Where the panel stands, such as `right-0 top-full mt-2`. */
	place: string;
	children: ReactNode;
}

export function Popover({ name, face, className, place, children }: PopoverProps) {
	const [open, setOpen] = useState(false);
	const root = useRef<HTMLDivElement>(null);
	const button = useRef<HTMLButtonElement>(null);
	const id = useId();

	useEffect(() => {
		if (!open) return;
		const outside = (event: PointerEvent) => {
			if (!root.current?.contains(event.target as Node)) setOpen(false);
		};
		const leave = (event: KeyboardEvent) => {
			if (event.key !== "Escape") return;
			setOpen(false);
			button.current?.focus();
		};
		document.addEventListener("pointerdown", outside);
		document.addEventListener("keydown", leave);
		return () => {
			document.removeEventListener("pointerdown", outside);
			document.removeEventListener("keydown", leave);
		};
	}, [open]);

	return (
		<div ref={root} className="relative min-w-0">
			<button
				ref={button}
				type="button"
				aria-expanded={open}
				aria-controls={id}
				className={className}
				onClick={() => setOpen(!open)}
			>
				{face}
			</button>
			{open && (
				<section
					id={id}
					aria-label={name}
					className={`absolute z-30 w-[min(23rem,calc(100vw-2rem))] animate-arrive rounded-lg border border-line bg-bg p-4 text-sm shadow-pop ${place}`}
				>
					{children}
				</section>
			)}
		</div>
	);
}
