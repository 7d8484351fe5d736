// How the page is built and, while working on it, served: requests for the API go to BATON_URL.

import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const server = process.env.BATON_URL ?? "http://127.0.0.1:7420";

export default defineConfig({
	plugins: [react(), tailwindcss()],
	build: { target: "es2024", reportCompressedSize: true, modulePreload: { polyfill: false } },
	server: { host: "127.0.0.1", port: 7421, strictPort: true, proxy: { "/v1": { target: server, changeOrigin: true } } },
	test: { include: ["src/**/*.test.ts"], environment: "node" },
});
