// The page's buttons: one loud kind, one quiet kind, and icons with a name.

import type { LucideIcon } from "lucide-react";
import type { ButtonHTMLAttributes } from "react";

const BASE =
	"inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md font-medium transition-colors disabled:cursor-default disabled:opacity-45";

const LOOKS = {
	loud: "bg-text text-bg not-disabled:hover:opacity-85",
	plain: "border border-line bg-bg text-text not-disabled:hover:bg-hover",
	quiet: "text-muted not-disabled:hover:bg-hover not-disabled:hover:text-text",
};

type Look = keyof typeof LOOKS;

export function Button({
	look = "plain",
	className = "",
	...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & { look?: Look }) {
	return <button type="button" className={`${BASE} ${LOOKS[look]} h-8 px-3 text-sm ${className}`} {...rest} />;
}

interface IconButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
	icon: LucideIcon;
	name: string;
	look?: Look;
}

/** A square button whose name is said to those who cannot see the icon, and shown when the pointer rests on it. */
export function IconButton({ icon: Icon, name, look = "quiet", className = "", ...rest }: IconButtonProps) {
	return (
		<button
			type="button"
			aria-label={name}
			title={name}
			className={`${BASE} ${LOOKS[look]} size-8 ${className}`}
			{...rest}
		>
			<Icon className="size-4" aria-hidden />
		</button>
	);
}
