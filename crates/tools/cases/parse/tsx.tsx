import React from "react";
type Props = { name: string };
/** Greets. */
export const Hello = ({ name }: Props) => {
  const greeting = useGreeting(name);
  return <Panel title={greeting}><b>{name}</b></Panel>;
};
