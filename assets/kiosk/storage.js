// The kiosk stores nothing in the browser. Whatever is there all the same goes with the visitor.
export const clearStorage = async () => {
  localStorage.clear();
  sessionStorage.clear();
  for (const cookie of document.cookie.split("; ").filter(Boolean)) {
    document.cookie = `${cookie.split("=")[0]}=; path=/; max-age=0`;
  }
  const databases = (await indexedDB.databases?.()) ?? [];
  databases.forEach(({ name }) => indexedDB.deleteDatabase(name));
  // Only there on this machine itself or over HTTPS.
  const names = (await globalThis.caches?.keys()) ?? [];
  await Promise.all(names.map((name) => caches.delete(name)));
};
