// The server's sentences in the languages of the page, by the keys that it sends with them. English
// is what the server itself says.

export const SAID = {
  en: { said: {}, figures: {} },
  zh: { said: {}, figures: {} },
};
