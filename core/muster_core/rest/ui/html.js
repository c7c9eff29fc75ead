// Preact with hooks and htm: what every module renders with.
import { createContext, Fragment, h, render } from './vendor/preact.js';
import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from './vendor/hooks.js';
import htm from './vendor/htm.js';

export const html = htm.bind(h);
export { createContext, Fragment, render, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState };
