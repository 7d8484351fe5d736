export function App() {
  return (
    <main className="grid min-h-dvh place-items-center bg-stone-50 p-6 text-stone-500">
      <p>Your app will appear here.</p>
    </main>
  );
}
