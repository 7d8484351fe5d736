import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react(), tailwindcss()],
  build: {
    reportCompressedSize: false,
    rolldownOptions: {
      // Of a barrel such as lucide-react, read the icons that are imported and not its two thousand others.
      experimental: { lazyBarrel: true },
    },
  },
});
