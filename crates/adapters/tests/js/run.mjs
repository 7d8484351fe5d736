// Runs the checks of one client in order; the first that fails ends the process.

export async function run(checks) {
  for (const [name, check] of Object.entries(checks)) {
    await check().catch((error) => {
      console.error(`FAILED: ${name}`);
      throw error;
    });
    console.log(`ok: ${name}`);
  }
}
